"""As much of JSON Schema (draft 7) as schemas/ uses, with the standard library alone; unknown keywords are an error."""

KNOWN = {"$schema", "$id", "title", "description", "definitions", "type", "const", "enum", "required", "properties", "items",
         "additionalProperties", "oneOf", "$ref", "minLength", "minimum"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_a(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def faults(value, schema, root, at="$"):
    """What is wrong with `value`, as texts."""
    if unknown := set(schema) - KNOWN:
        return [f"{at}: the schema has keywords {sorted(unknown)}, which are not checked here"]
    if "$ref" in schema:
        return faults(value, root["definitions"][schema["$ref"].rsplit("/", 1)[1]], root, at)
    types = schema.get("type")
    if types and not any(is_a(value, name) for name in ([types] if isinstance(types, str) else types)):
        return [f"{at}: {value!r} is no {types}"]
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: {value!r} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: {value!r} is none of {schema['enum']}")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        found.append(f"{at}: {value!r} is too short")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{at}: {value!r} is less than {schema['minimum']}")
    if "oneOf" in schema and sum(not faults(value, one, root, at) for one in schema["oneOf"]) != 1:
        found.append(f"{at}: {value!r} is not exactly one of what is allowed")
    if isinstance(value, dict):
        found += of_object(value, schema, root, at)
    if isinstance(value, list) and "items" in schema:
        found += [text for number, item in enumerate(value) for text in faults(item, schema["items"], root, f"{at}[{number}]")]
    return found


def of_object(value, schema, root, at):
    found = [f"{at}: no {key!r}" for key in schema.get("required", []) if key not in value]
    properties, more = schema.get("properties", {}), schema.get("additionalProperties", True)
    for key, item in value.items():
        if key in properties:
            found += faults(item, properties[key], root, f"{at}.{key}")
        elif more is False:
            found.append(f"{at}: {key!r} is not in the schema")
        elif isinstance(more, dict):
            found += faults(item, more, root, f"{at}.{key}")
    return found
