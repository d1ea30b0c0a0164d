"""The corpus of manifests (src/function/manifests) and api/function.schema.json, held against the parser's sources.

Each corpus file has a function.yaml above `----` and all that is told about it below; manifest_corpus_test.cc sees to
that. Here: every message that the sources can give is in some file, and the schema refuses what the parser refuses.
A bad file whose mistake no schema can see (names, expressions, sizes, files) begins with `# schema: accepts`.
"""
import json
import re

import jsonschema
import pytest
import yaml
from conftest import EXAMPLES, ROOT

pytestmark = pytest.mark.fake

FUNCTION = ROOT / "src" / "function"
SOURCES = ["manifest_parse.cc", "manifest_graph.cc", "manifest_steps.cc", "manifest_check.cc", "manifest_settings.cc",
           "plan.cc", "plan_steps.cc", "plan_memory.cc", "expression.cc", "constant.cc", "npy.cc", "safetensors.cc",
           "yaml_tree.cc", "signature.cc"]
SCHEMA = ROOT / "api" / "function.schema.json"
ACCEPTS = "# schema: accepts"
FEWEST_BAD, FEWEST_GOOD = 150, 30

# (source, message, why no manifest of the corpus can give it)
UNREACHABLE = [
    ("constant.cc", "a header has tensors that slices_of did not find", "a promise of slices_of: constant_test.cc"),
    ("manifest_parse.cc", "is not in the folder{}", "told where there is no manifest: manifest_test.cc"),
    ("manifest_parse.cc", "file {} has a control character in its name; rename it",
     "takes a file of such a name: includes_test.cc"),
    ("manifest_parse.cc", "program {} has about {} kernels; at most {} are compiled",
     "takes a program of 1025 kernels: manifest_test.cc"),
    ("manifest_graph.cc", "{} buffers; at most {} are allowed", "takes a manifest of 100 KB: manifest_test.cc"),
    ("manifest_steps.cc", "more than {} kernels; leave some out", "takes a manifest of 300 KB: manifest_test.cc"),
    ("yaml_tree.cc", "more than {} values; make it smaller", "takes a manifest of 1.2 MB: manifest_test.cc"),
    ("yaml_tree.cc", "is {} bytes; at most {} are read", "takes a manifest of 4 MB: manifest_test.cc"),
    ("yaml_tree.cc", "aliases (*name) are not allowed; write the value out", "its anchor was refused before"),
    ("plan.cc", "global has 1 to 3 sizes, and local as many", "manifest_steps.cc refused it before"),
    ("plan.cc", "{}: the binding is of another graph", "internal"),
    ("plan_steps.cc", "{}: the binding is of another graph", "internal"),
    ("expression.cc", "'{}' is not known here", "manifest_graph.cc refused it before"),
    ("expression.cc", "'{}' is not a whole number of 64 bits", "only a request can set a uint64 that large"),
    ("constant.cc", "is not in the folder; add it", "manifest_check.cc refused it before"),
    ("signature.cc", "; it has no kernels", "told of a program without kernels: plan_test.cc"),
    ("npy.cc", "npy: {} has no name in .npy files; ask for another dtype", "told when a file is written: npy_test.cc"),
    ("npy.cc", "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", "no message: what is written"),
    ("npy.cc", "npy: the shape does not fit a header", "told when a file is written: npy_test.cc"),
]

# Calls whose texts are messages. Any other text with a space in it is a part of one: what a message calls things.
CALLS = {"add", "bad", "error", "fail", "invalid", "problem", "refuse", "unsupported", "warning", "YamlProblem"}
SHORTEST_FRAGMENT = 8
TOKEN = re.compile(r'''(?P<skip>//[^\n]*|\#include[^\n]*|\s+)|R"\((?P<raw>.*?)\)"|"(?P<text>(?:[^"\\\n]|\\.)*)"'''
                   r"""|'(?:[^'\\]|\\.)+'|(?P<word>[A-Za-z_]\w*)|(?P<sign>.)""", re.S)
ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\", "\\0": "\0"}


def texts_of(code):
    """[text, is inside one of CALLS] of every string in C++; neighbours are one string, as for a compiler."""
    texts, calls, word, joins = [], [], "", False
    for token in TOKEN.finditer(code):
        if token["skip"] is not None:
            continue
        text = token["raw"] if token["text"] is None else re.sub(r"\\.", lambda escape: ESCAPES.get(escape[0], "?"),
                                                                 token["text"])
        if text is not None:
            if joins:
                texts[-1][0] += text
            else:
                texts.append([text, not CALLS.isdisjoint(calls)])
        elif token["sign"] in ("(", "{", "["):
            calls.append(word)
        elif token["sign"] in (")", "}", "]") and calls:
            calls.pop()
        joins, word = text is not None, token["word"] or ""
    return texts


def parts_of(message):
    """What stands between the placeholders of a format."""
    parts = re.split(r"\{[^{}]*\}", message.replace("{{", "\1").replace("}}", "\2"))
    return [part.replace("\1", "{").replace("\2", "}") for part in parts]


def messages_of(source):
    found = []
    for text, is_in_call in texts_of((FUNCTION / source).read_text()):
        long = [part for part in parts_of(text) if len(part) >= SHORTEST_FRAGMENT and re.search("[a-z]{2}", part)]
        if long and (is_in_call or any(" " in part.strip() for part in long)) and text not in found:
            found.append(text)
    return found


def pattern_of(message):
    """All parts in order. What says what to write instead ends its line: `; write a number` is not told by
    `; write a number above 0`. Behind a problem of an expression comes its place."""
    parts = parts_of(message)
    ends = "; " in message.lstrip("; ") and parts[-1]
    return re.compile(".*".join(map(re.escape, parts)) + (r"( at character \d+)?$" if ends else ""))


def corpus():
    """{name: (manifest, what is told)}; bytes that are no UTF-8 are shown as such."""
    files = {}
    for path in sorted((FUNCTION / "manifests").glob("*.txt")):
        manifest, line, told = path.read_bytes().decode(errors="replace").partition("\n----\n")
        assert line, f"{path.name} has no line ----"
        files[path.stem] = manifest + "\n", told
    return files


FILES = corpus()
GOOD = {name: manifest for name, (manifest, told) in FILES.items() if name.startswith("good_")}
BAD = {name: manifest for name, (manifest, told) in FILES.items() if not name.startswith("good_")}
LINES = [line for manifest, told in FILES.values() for line in told.splitlines()]


def is_told(message):
    return any(map(pattern_of(message).search, LINES))


def test_every_message_is_in_the_corpus():
    excused = {(source, message) for source, message, reason in UNREACHABLE}
    missing = [f"{source}: {message}" for source in SOURCES
               for message in messages_of(source) if (source, message) not in excused and not is_told(message)]
    assert not missing, "no file of src/function/manifests is told:\n" + "\n".join(missing)


def test_what_is_unreachable_exists_and_is_not_reached():
    for source, message, reason in UNREACHABLE:
        assert message in messages_of(source), f"{source} no longer has: {message}"
        told = [line for line in LINES if re.search(pattern_of(message).pattern + "$", line)]
        assert not told, f"a manifest reaches it after all; strike it from UNREACHABLE: {told}"
        for test in re.findall(r"\w+_test\.cc", reason):
            assert (FUNCTION / test).exists(), reason


def test_the_corpus_is_large_and_its_names_are_true():
    assert len(BAD) >= FEWEST_BAD and len(GOOD) >= FEWEST_GOOD
    for name, (manifest, told) in FILES.items():
        errors = [line for line in told.splitlines() if ": error: " in line]
        assert bool(errors) != name.startswith("good_"), f"{name}.txt is told:\n{told}"


# The schema.


class NotPlain(Exception):
    """A key that is no plain word; JSON has none."""


def value_of(node):
    """As Quern reads YAML: only plain words are numbers, true, false and null, and only in the forms of JSON."""
    if isinstance(node, yaml.MappingNode):
        if any(not isinstance(key, yaml.ScalarNode) for key, value in node.value):
            raise NotPlain
        return {key.value: value_of(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [value_of(item) for item in node.value]
    text = node.value
    if node.style is not None:
        return text
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return float(text)
    return text


def document_of(manifest):
    node = yaml.compose(manifest, Loader=yaml.SafeLoader)
    return None if node is None else value_of(node)


@pytest.fixture(scope="module")
def schema():
    return json.loads(SCHEMA.read_text())


@pytest.fixture(scope="module")
def refusal(schema):
    """Of a manifest: why the schema refuses it, or nothing."""
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)

    def why(manifest):
        try:
            document = document_of(manifest)
        except (yaml.YAMLError, NotPlain) as problem:
            return f"no YAML: {problem}"
        error = jsonschema.exceptions.best_match(validator.iter_errors(document))
        return error and f"{'.'.join(map(str, error.absolute_path)) or 'the manifest'}: {error.message}"
    return why


def test_the_schema_accepts_good_manifests(refusal):
    refused = {name: why for name, manifest in GOOD.items() if (why := refusal(manifest))}
    assert refused == {}


def test_the_schema_accepts_examples(refusal):
    manifests = sorted([*EXAMPLES.glob("*/function.yaml"), *(ROOT / "tests" / "functions").glob("*/function.yaml")])
    refused = {str(path): why for path in manifests if (why := refusal(path.read_text()))}
    assert manifests and refused == {}


def test_the_schema_refuses_bad_manifests(refusal):
    accepted = [name for name, manifest in BAD.items()
                if not manifest.startswith(ACCEPTS + "\n") and not refusal(manifest)]
    assert accepted == [], f"the schema misses these mistakes; mend it, or begin the file with {ACCEPTS!r}"


def test_what_no_schema_can_see_is_marked_truly(refusal):
    refused = {name: why for name, manifest in BAD.items()
               if manifest.startswith(ACCEPTS + "\n") and (why := refusal(manifest))}
    assert refused == {}, f"the schema sees these mistakes; take the line {ACCEPTS!r} away"
    assert [name for name, manifest in GOOD.items() if ACCEPTS in manifest] == []


def properties_of(schema):
    """(key, its schema) of every map of the language; conditions, which only narrow them, are left out."""
    if isinstance(schema, list):
        for part in schema:
            yield from properties_of(part)
    elif isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for word, part in schema.items():
            if word in ("properties", "definitions"):
                yield from properties_of(list(part.values()))
            elif word not in ("allOf", "if", "then", "else"):
                yield from properties_of(part)


def test_every_key_of_the_schema_is_described(schema):
    bare = [name for name, part in properties_of(schema) if not part.get("description")]
    assert bare == [], "editors show descriptions; write one for each key"
    assert "$id" not in json.dumps(schema) and schema["title"]


def words_of(document):
    """Every key, and every value that is text."""
    if isinstance(document, dict):
        return set(document).union(*map(words_of, document.values()))
    if isinstance(document, list):
        return set().union(*map(words_of, document))
    return {document} if isinstance(document, str) else set()


def test_good_manifests_use_every_key(schema):
    used = set().union(*(words_of(document_of(manifest)) for manifest in GOOD.values()))
    language = {name for name, part in properties_of(schema)}
    language |= set(schema["definitions"]["dtype"]["enum"])
    language |= set(schema["definitions"]["buffer"]["properties"]["role"]["enum"])
    language |= set(schema["definitions"]["repeat"]["properties"]["on_limit"]["enum"])
    assert language - used == set()
