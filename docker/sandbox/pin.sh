#!/bin/sh
# Pulls the base image and builds the sandbox's image on exactly what came: no digest is written that was not pulled.
#
#   docker/sandbox/pin.sh [BASE]
set -eu
base=${1:-python:3.12-slim}
docker pull "$base" >&2
pinned=$(docker image inspect --format '{{index .RepoDigests 0}}' "$base")
echo "Base: $pinned" >&2
docker build --build-arg BASE="$pinned" -t devassist-sandbox "$(dirname "$0")" >&2
echo "SANDBOX_IMAGE=devassist-sandbox  # built on $pinned"
