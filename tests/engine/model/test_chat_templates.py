"""Which chat template of a folder is used: that of the processor, as transformers finds it."""

import json
from pathlib import Path

import pytest
from transformers.processing_utils import ProcessorMixin

from stepscope.engine.errors import CheckpointError
from stepscope.engine.model.files.loading import load_tokenizer
from tests.support.streams.sentencepiece import make_spaced_tokenizer

TEXT_ONLY = "{% for message in messages %}{{ message['role'] + message['content'] }}{% endfor %}"


def named(template: str) -> list[dict[str, str]]:
    return [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": template}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder whose tokenizer has a template for texts alone, in its tokenizer_config.json."""
    make_spaced_tokenizer("prepend").save_pretrained(tmp_path)
    write(tmp_path, "tokenizer_config.json", TEXT_ONLY)
    return tmp_path


def write(folder: Path, name: str, template: object) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".json":
        values = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**values, "chat_template": template}))
    else:
        path.write_text(str(template))


FILES = ("processor_config.json", "chat_template.json", "chat_template.jinja")


@pytest.mark.parametrize("first", range(len(FILES)))
def test_the_template_is_the_one_of_the_processor_where_several_files_have_one(folder: Path, first: int) -> None:
    for name in FILES[first:]:
        write(folder, name, f"from {name}")
    published, _ = ProcessorMixin.get_processor_dict(folder)
    assert load_tokenizer(folder).chat_template == published["chat_template"] == f"from {FILES[first]}"


def test_without_another_the_template_is_the_one_of_the_tokenizer(folder: Path) -> None:
    assert load_tokenizer(folder).chat_template == TEXT_ONLY


@pytest.mark.parametrize("name", ["tokenizer_config.json", "chat_template.json", "processor_config.json"])
def test_of_templates_with_names_the_default_is_used(folder: Path, name: str) -> None:
    write(folder, name, named("from the list"))
    assert load_tokenizer(folder).chat_template == "from the list"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # transformers leaves its files open
@pytest.mark.parametrize("default", ["chat_template.jinja", "additional_chat_templates/default.jinja"])
def test_of_the_files_that_transformers_5_writes_the_default_is_used(folder: Path, default: str) -> None:
    write(folder, default, "from the default")
    write(folder, "additional_chat_templates/tool_use.jinja", "tools")
    published, _ = ProcessorMixin.get_processor_dict(folder)
    assert load_tokenizer(folder).chat_template == published["chat_template"]["default"] == "from the default"


@pytest.mark.parametrize("templates", [named("x")[:1], [], [7], {"default": 7}])
def test_templates_without_a_default_are_refused(folder: Path, templates: object) -> None:
    write(folder, "tokenizer_config.json", None)
    write(folder, "chat_template.json", templates)
    with pytest.raises(CheckpointError, match=r"has no chat template, or several without one named default; add"):
        load_tokenizer(folder)
