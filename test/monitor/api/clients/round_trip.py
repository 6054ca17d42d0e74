"""
Passes answers of the API through a client that openapi-python-client generated, as its users receive them.

    python3 round_trip.py <answers.json>      answers: [{title, operationId, status or "request", body}]; the package
                                              `client` and its dependencies are on PYTHONPATH

Prints JSON: {"count": answers that came through, "losses": ["<title>: <what, where>"]}. A loss is a body that the client
refuses, a value that differs after `from_dict` and `to_dict`, or a member that only `additional_properties` holds although
its class has members of its own, which means that the document does not describe it.
"""

import datetime
import importlib
import json
import pkgutil
import re
import sys

import httpx

import client.api
import client.models
from client import Client

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|\+00:00)")


def find_operations():
    """Module name of an operation, such as list_sites, to the module: client/api/<tag>/<operation>.py."""
    modules = pkgutil.walk_packages(client.api.__path__, "client.api.")
    return {name.rsplit(".", 1)[1]: importlib.import_module(name) for _, name, is_package in modules if not is_package}


def to_snake(operation_id):
    """As the generator names modules: getOpenApi to get_open_api."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", operation_id).lower()


def parse(operation, answer):
    """The typed object a user of the client gets; None where the document has no such response."""
    if answer["status"] == "request":
        return client.models.DetectionRequest.from_dict(answer["body"])
    response = httpx.Response(answer["status"], json=answer["body"])
    return operation._parse_response(client=Client(base_url="http://unused"), response=response)


def compare(sent, received, place, losses):
    """Adds every difference. Times are compared as instants: Python writes +00:00 where the API writes Z."""
    if isinstance(sent, dict) and isinstance(received, dict):
        for name in sent.keys() | received.keys():
            if name not in received:
                losses.append(f"{place}/{name} is lost")
            elif name not in sent:
                losses.append(f"{place}/{name} was not sent")
            else:
                compare(sent[name], received[name], f"{place}/{name}", losses)
    elif isinstance(sent, list) and isinstance(received, list) and len(sent) == len(received):
        for index, (one, other) in enumerate(zip(sent, received)):
            compare(one, other, f"{place}/{index}", losses)
    elif is_instant(sent) and is_instant(received):
        if datetime.datetime.fromisoformat(sent) != datetime.datetime.fromisoformat(received):
            losses.append(f"{place}: {sent} became {received}")
    elif type(sent) is not type(received) or sent != received:
        # int and float are one JSON type, bool is not one of them
        if isinstance(sent, bool) or isinstance(received, bool) or sent != received:
            losses.append(f"{place}: {sent!r} became {received!r}")


def is_instant(value):
    return isinstance(value, str) and TIMESTAMP.fullmatch(value) is not None


def find_unknown(value, place, losses):
    """Adds members that only additional_properties holds. A class without members of its own is a map by intention."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            find_unknown(each, f"{place}/{index}", losses)
        return
    names = [field.name for field in getattr(type(value), "__attrs_attrs__", ())]
    own = [name for name in names if name != "additional_properties"]
    unknown = getattr(value, "additional_properties", {}) if own else {}
    if unknown and type(value).__name__ != "OpenApi":  # open by its own standard
        losses.append(f"{place}: {type(value).__name__} does not know {', '.join(unknown)}")
    for name in own:
        find_unknown(getattr(value, name), f"{place}/{name}", losses)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        answers = json.load(file)
    operations = find_operations()
    count, all_losses = 0, []
    for answer in answers:
        losses = []
        try:
            parsed = parse(operations[to_snake(answer["operationId"])], answer)
            if parsed is None:
                losses.append("the client knows no response of this status")
            else:
                compare(answer["body"], parsed.to_dict(), "", losses)
                find_unknown(parsed, "", losses)
        except Exception as error:  # a loss is whatever its users would meet
            losses.append(f"{type(error).__name__}: {error}")
        count += not losses
        all_losses += [f"{answer['title']}: {loss}" for loss in losses]
    print(json.dumps({"count": count, "losses": all_losses}))


main()
