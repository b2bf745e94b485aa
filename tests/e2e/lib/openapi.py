"""The admin interface's OpenAPI document: does what was asked and answered agree with it?

Knows the part of JSON Schema that the document uses; a word that it does not know is an error, so that no
constraint is passed over in silence.
"""
import json
import os
import re
import urllib.parse

SOURCE = os.path.join(os.environ.get("top_srcdir") or os.path.join(os.path.dirname(__file__), "../../.."),
                      "etc/sluice-admin.openapi.json")
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
         "number": (int, float)}
NOTES = {"description", "format", "title"}
SIZES = {  # word of a bound: (type that it bounds, what it counts, is it the least?)
    "minItems": (list, "items", True), "maxItems": (list, "items", False),
    "minLength": (str, "characters", True), "maxLength": (str, "characters", False),
    "minProperties": (dict, "members", True), "maxProperties": (dict, "members", False),
}


class Mismatch(AssertionError):
    """What was sent is not what the document says."""


def fail(where, what):
    raise Mismatch(f"OpenAPI: {where}: {what}")


def is_type(value, name):
    return isinstance(value, TYPES[name]) and (name not in ("integer", "number") or not isinstance(value, bool))


class Document:
    def __init__(self, path=SOURCE):
        with open(path, encoding="utf-8") as file:
            self.root = json.load(file)
        self.paths = [(re.compile("/".join("([^/]+)" if part.startswith("{") else re.escape(part)
                                           for part in path.split("/"))), path, item)
                      for path, item in self.root["paths"].items()]
        self.seen = set()  # (path, method, status)

    # ---- schemas --------------------------------------------------------------------------------

    def resolve(self, schema):
        while "$ref" in schema:
            node = self.root
            for part in schema["$ref"].removeprefix("#/").split("/"):
                node = node[part]
            schema = node
        return schema

    def check(self, value, schema, where):
        schema = self.resolve(schema)
        for word, given in schema.items():
            if word in SIZES:
                self.check_size(value, given, *SIZES[word], where)
            elif word not in NOTES:
                getattr(self, "word_" + word.strip("$"), self.unknown(word))(value, given, schema, where)

    @staticmethod
    def check_size(value, given, kind, counted, is_least, where):
        if isinstance(value, kind) and (len(value) < given if is_least else len(value) > given):
            fail(where, f"has {len(value)} {counted}, not at {'least' if is_least else 'most'} {given}")

    @staticmethod
    def unknown(word):
        def report(*_):
            raise ValueError(f"lib/openapi.py does not know {word}")
        return report

    def word_type(self, value, given, _, where):
        names = given if isinstance(given, list) else [given]
        if not any(is_type(value, name) for name in names):
            fail(where, f"{value!r} is not of type {given}")

    def word_enum(self, value, given, _, where):
        if value not in given:
            fail(where, f"{value!r} is none of {given}")

    def word_const(self, value, given, _, where):
        if value != given or type(value) is not type(given):
            fail(where, f"{value!r} is not {given!r}")

    def word_pattern(self, value, given, _, where):
        if isinstance(value, str) and not re.search(given, value):
            fail(where, f"{value!r} does not match {given}")

    def word_minimum(self, value, given, _, where):
        if is_type(value, "number") and value < given:
            fail(where, f"{value} is below {given}")

    def word_maximum(self, value, given, _, where):
        if is_type(value, "number") and value > given:
            fail(where, f"{value} is above {given}")

    def word_required(self, value, given, _, where):
        for name in given:
            if isinstance(value, dict) and name not in value:
                fail(where, f"lacks {name}")

    def word_properties(self, value, given, _, where):
        for name in given:
            if isinstance(value, dict) and name in value:
                self.check(value[name], given[name], f"{where}.{name}")

    def word_additionalProperties(self, value, given, schema, where):
        for name in value if isinstance(value, dict) else ():
            if name in schema.get("properties", {}):
                continue
            if given is False:
                fail(where, f"has {name}, which is not in the document")
            self.check(value[name], given, f"{where}.{name}")

    def word_items(self, value, given, _, where):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            self.check(item, given, f"{where}[{index}]")

    def word_oneOf(self, value, given, _, where):
        errors = []
        for schema in given:
            try:
                self.check(value, schema, where)
            except Mismatch as error:
                errors.append(str(error))
        if len(errors) != len(given) - 1:
            fail(where, f"{value!r} fits {len(given) - len(errors)} of {len(given)}: {errors}")

    # ---- messages -------------------------------------------------------------------------------

    def find(self, path):
        """(path of the document, its item), or (None, None)"""
        for pattern, name, item in self.paths:
            if pattern.fullmatch(path):
                return name, item
        return None, None

    def check_call(self, method, target, body, status, fields, content):
        """One request and its response: a good answer is to a good request, and each has its schema."""
        path, _, query = target.partition("?")
        name, item = self.find(path)
        operation = (item or {}).get("get" if method == "HEAD" else method.lower())
        where = f"{method} {target}: {status}"
        if operation is None:
            if status not in (400, 401, 403, 404, 405, 413):
                fail(where, "is not in the document")
            answers = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
        elif str(status) not in operation["responses"]:
            fail(where, f"expected one of {sorted(operation['responses'])}")
        else:
            self.seen.add((name, method, status))
            answers = operation["responses"][str(status)]["content"]
        if operation and status < 300:
            self.check_request(operation, query, body, where)
        self.check_content(answers, fields, None if method == "HEAD" else content, where)

    def check_request(self, operation, query, body, where):
        known = {one["name"]: one for one in operation.get("parameters", ()) if one["in"] == "query"}
        given = dict(urllib.parse.parse_qsl(query, encoding="latin-1"))
        for name, value in given.items():
            if name in known:
                schema = known[name]["schema"]
                self.check(int(value) if schema.get("type") == "integer" else value, schema, f"{where}: ?{name}")
            elif not name.startswith(("field.", "meta.")):
                fail(where, f"?{name} is not in the document")
        for name, one in known.items():
            if one["required"] and name not in given:
                fail(where, f"?{name} is not there")
        if "requestBody" in operation and (body or operation["requestBody"]["required"]):
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            self.check(json.loads(body), schema, f"{where}: the request")

    def check_content(self, answers, fields, content, where):
        media = fields.get("content-type", "").partition(";")[0]
        if media not in answers:
            fail(where, f"the content is {media!r}, expected one of {sorted(answers)}")
        if content is not None and media.endswith("json"):
            self.check(json.loads(content), answers[media]["schema"], f"{where}: the response")
