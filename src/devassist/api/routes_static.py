"""The web UI's static export at ``/``, or a page that says where the API is when there is none."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, HTMLResponse, Response

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>DevAssist</title>
<body><h1>DevAssist</h1>
<p>The service is running. The web UI is not built here; the API is described at
<a href="/openapi.json">/openapi.json</a>.</p>
<p lang="zh-CN">服务已启动。此处没有构建网页界面；接口说明见 <a href="/openapi.json">/openapi.json</a>。</p>
<pre>curl -s 127.0.0.1:8000/chat -H 'content-type: application/json' \\
  -d '{"message": "退休人员门诊慢特病的报销比例是多少？"}'</pre>
</body></html>"""


def router(web_dir: Path) -> APIRouter:
    routes = APIRouter()

    @routes.get("/", include_in_schema=False)
    async def index() -> Response:
        page = web_dir / "index.html"
        return FileResponse(page) if page.is_file() else HTMLResponse(_PAGE)

    assert index is not None, "registered by its decorator"
    return routes
