"""The limited handlers in Django. Served by gunicorn: gunicorn django_app:application"""

import json
import pathlib
import re

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

HANDLERS = json.loads((pathlib.Path(__file__).parent.parent / "handlers.json").read_text("utf-8"))

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of a test",
                   MIDDLEWARE=["django.middleware.common.CommonMiddleware"])


def token(request):
    words = request.headers.get("Authorization", "").split()
    return words[1] if len(words) == 2 and words[0].lower() == "bearer" else None


def answer(request, handler, name=None):
    text = json.dumps({
        "handler": handler, "method": request.method, "path": request.path_info, "name": name,
        "header": request.headers.get("X-Api-Key"), "plan": (request.headers.get("X-Plan") or "").strip(),
        "cookie": request.COOKIES.get("sid"), "query": request.GET.get("k"), "token": token(request)})
    response = HttpResponse(text, content_type="application/json")
    response["X-Read"] = text
    return response


def view(handler, method):
    allowed = ["GET", "HEAD"] if method == "GET" else [method]

    @csrf_exempt
    @require_http_methods(allowed)
    def call(request, name=None, suffix=None):
        return answer(request, handler, name)

    return call


def pattern(one):
    """Half of them as regular expressions, the older way and still a usual one."""
    rest = one["path"][1:]
    call = view(one["name"], one["method"])
    if len(one["name"]) % 2:
        return re_path("^" + re.escape(rest) + "$", call)
    return path(rest, call)


urlpatterns = [
    *map(pattern, HANDLERS),
    re_path(r"^v1/report(\.(?P<suffix>\w+))?$", view("report", "GET")),
    path("u/<str:name>", view("user", "GET")),
    path("f/<path:name>", view("files", "GET")),
]
django.setup()
application = get_wsgi_application()
