"""The real servers: each a framework with the limited handlers of handlers.json, started as its manual
says."""

import os
import pathlib
import shutil
import subprocess

from stage import free_port

HERE = pathlib.Path(__file__).resolve().parent
APPS = HERE / "apps"
HANDLERS = HERE / "handlers.json"
NAMES = ("flask", "django", "go", "express", "node", "php", "rack")
START_SECONDS = 60


def _gunicorn(stage, app):
    """One worker, of the kind that gunicorn starts unless told otherwise."""
    port = free_port()
    return [shutil.which("gunicorn", path="/usr/bin"), "--bind", f"127.0.0.1:{port}",
            "--chdir", APPS, app], port, {"PYTHONDONTWRITEBYTECODE": "1"}


def _flask(stage):
    return _gunicorn(stage, "flask_app:app")


def _django(stage):
    return _gunicorn(stage, "django_app:application")


def _go(stage):
    program, port = stage.dir / "go_server", free_port()
    subprocess.run(["go", "build", "-o", program, APPS / "server.go"], check=True,
                   env={**os.environ, "GOCACHE": str(stage.dir / "go"), "GOFLAGS": "-mod=mod",
                        "GOPATH": str(stage.dir / "gopath"), "GOTOOLCHAIN": "local"})
    return [program, HANDLERS, port], port, {}


def _node_program(app):
    port = free_port()
    return ["node", APPS / app, HANDLERS, port], port, {"NODE_PATH": "/usr/share/nodejs"}


def _express(stage):
    return _node_program("express_app.js")


def _node(stage):
    return _node_program("node_app.js")


def _php(stage):
    port = free_port()
    return ["php", "-d", "display_errors=stderr", "-S", f"127.0.0.1:{port}", "-t", APPS / "php", APPS / "php" / "index.php"], port, {
        "HANDLERS": str(HANDLERS)}


def _rack(stage):
    """Rack on Puma, as Sinatra, Rails and Hanami are served."""
    port = free_port()
    return ["puma", "--quiet", "--environment", "production", "--threads", "32:32", "--bind",
            f"tcp://127.0.0.1:{port}", APPS / "rack_app.ru"], port, {"HANDLERS": str(HANDLERS)}


STARTS = {"flask": _flask, "django": _django, "go": _go, "express": _express, "node": _node, "php": _php,
          "rack": _rack}


def start(stage, name):
    """The URL of the server @name, which ends with the stage."""
    argv, port, environment = STARTS[name](stage)
    stage.start(name, argv, port, environment={**os.environ, **environment},
                start_seconds=START_SECONDS)
    return f"http://127.0.0.1:{port}"
