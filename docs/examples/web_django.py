from django.http import HttpRequest, HttpResponse

import recipes

client = recipes.connect("sqlite://./locks.db")  # no I/O: the first use opens it


def close_month(request: HttpRequest, month: str) -> HttpResponse:
    grant = client.lock(f"close/{month}").try_acquire()
    if grant is None:
        return HttpResponse("another process closes this month\n", status=409)
    with grant:
        return HttpResponse(f"closed under token {grant.token}\n")
