"""Reads XML documents of other programs. None of them writes a document type declaration, so that it is refused."""

from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from stepscope.engine.io.files import open_file

_MAX_BYTES: Final = 8 * 2**20
_NUM_BLOCK_BYTES: Final = 2**16


def parse_xml(path: Path, *, kind: str) -> ElementTree.Element:
    """Return the root of a document. Raises ``ValueError`` naming file and ``kind``, such as ``an ELAN document``."""
    with open_file(path) as file:
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path} is larger than {_MAX_BYTES // 2**20} MiB, the largest document that is read")
    parser = ElementTree.XMLParser(target=_Tree())
    try:
        for start in range(0, len(content), _NUM_BLOCK_BYTES):  # the parser stops all other threads
            parser.feed(content[start : start + _NUM_BLOCK_BYTES])
        root: ElementTree.Element = parser.close()
    except (ElementTree.ParseError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from error
    return root


class _Tree(ElementTree.TreeBuilder):
    """The elements of a document. Raises ``ValueError`` at a document type declaration."""

    def doctype(self, *_: object) -> None:
        """Refuse it."""
        raise ValueError("it has a document type declaration; annotation programs write none")
