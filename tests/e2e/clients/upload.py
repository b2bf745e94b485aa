"""Uploads by one of Python's clients: upload.py CLIENT URL BYTES length|chunked COUNT.

Prints a line of JSON: the status of each answer, or what came in its place. A client that is not
installed ends with status 77. Prints `{}` when only asked whether it is (COUNT 0).
"""
import asyncio
import io
import json
import sys

PIECE = b"x" * 65536


def pieces(size):
    while size > 0:
        yield PIECE[:size]
        size -= len(PIECE)


def with_urllib(url, size, mode):
    import urllib.error
    import urllib.request
    data = b"x" * size if mode == "length" else pieces(size)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, data=data, method="POST"), timeout=60) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        error.read()
        return error.code


def with_requests(url, size, mode):
    import requests
    with requests.Session() as session:
        session.trust_env = False
        return session.post(url, data=b"x" * size if mode == "length" else pieces(size), timeout=60).status_code


def with_httpx(url, size, mode):
    import httpx
    with httpx.Client(trust_env=False, timeout=60) as client:
        return client.post(url, content=b"x" * size if mode == "length" else pieces(size)).status_code


def with_aiohttp(url, size, mode):
    import aiohttp

    async def chunked():
        for piece in pieces(size):
            yield piece

    async def ask():
        async with aiohttp.ClientSession() as session:
            data = io.BytesIO(b"x" * size) if mode == "length" else chunked()
            async with session.post(url, data=data) as answer:
                await answer.read()
                return answer.status
    return asyncio.run(ask())


def main():
    client, url, size, mode, count = sys.argv[1:]
    try:
        __import__({"urllib": "urllib.request"}.get(client, client))
    except ImportError:
        sys.exit(77)
    outcomes = []
    for _ in range(int(count)):
        try:
            outcomes.append(globals()["with_" + client](url, int(size), mode))
        except Exception as error:
            outcomes.append(f"{type(error).__name__}: {error}")
    print(json.dumps(outcomes))


main()
