"""The limited handlers in Flask. Served by gunicorn: gunicorn flask_app:app"""

import json
import pathlib

from flask import Flask, Response, request

HANDLERS = json.loads((pathlib.Path(__file__).parent.parent / "handlers.json").read_text("utf-8"))
app = Flask(__name__)


def token():
    scheme, _, rest = request.headers.get("Authorization", "").partition(" ")
    return rest.strip() if scheme.lower() == "bearer" else None


def answer(handler, name=None):
    text = json.dumps({
        "handler": handler, "method": request.method, "path": request.path, "name": name,
        "header": request.headers.get("X-Api-Key"), "plan": request.headers.get("X-Plan"),
        "cookie": request.cookies.get("sid"), "query": request.args.get("k"), "token": token()})
    return Response(text, mimetype="application/json", headers={"X-Read": text})


for one in HANDLERS:
    app.add_url_rule(one["path"], one["name"], lambda name=one["name"]: answer(name),
                     methods=[one["method"]])


@app.get("/v1/report")
@app.get("/v1/report.<suffix>")
def report(suffix=None):
    return answer("report")


@app.get("/u/<name>")
def user(name):
    return answer("user", name)


@app.get("/f/<path:name>")
def files(name):
    return answer("files", name)
