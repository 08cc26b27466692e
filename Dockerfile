# Build: docker build -t devassist .      Run: docker compose up
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/devassist
WORKDIR /src
COPY requirements/run.txt requirements/
RUN /opt/devassist/bin/pip install -q --require-hashes -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/devassist/bin/pip install -q --no-deps --no-build-isolation .

FROM ${BASE}
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin devassist \
 && install -d -o devassist -g devassist -m 0700 /var/lib/devassist/data /var/lib/devassist/data.keys \
    /run/devassist
COPY --from=build /opt/devassist /opt/devassist
ENV PATH=/opt/devassist/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    DEVASSIST_DATA_DIR=/var/lib/devassist/data \
    DEVASSIST_KEYS_DIR=/var/lib/devassist/data.keys
# Two volumes: without the keys no text of the data can be read, so they are kept, and backed up, apart.
VOLUME ["/var/lib/devassist/data", "/var/lib/devassist/data.keys"]
WORKDIR /var/lib/devassist
USER devassist
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/livez', timeout=2).read()"]
# The server listens on loopback unless DEVASSIST_HOST says otherwise, see compose.yaml.
CMD ["devassist", "serve"]
