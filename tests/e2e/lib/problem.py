"""Answers of sluice's own."""
import json

from .tap import equal, true


def problem(answer, status):
    """A reply of sluice's own, as RFC 9457 has it."""
    equal((answer.status, answer.get("Content-Type")), (status, "application/problem+json"))
    body = json.loads(answer.body)
    equal(body["status"], status, "status in the body")
    true(body.get("title") and body.get("detail"), f"title and detail in {body}")
    return body
