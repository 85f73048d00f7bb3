"""The program that an open document is part of, migrated as the editor shows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xla_migrate.choosing import Policy, choose, tell
from xla_migrate.config import black_settings
from xla_migrate.discovery import discover, repository_root
from xla_migrate.documents import Document, migrate
from xla_migrate.files import Content, FileProblem, read
from xla_migrate.notebooks import is_notebook
from xla_migrate.notebooks.programs import Program
from xla_migrate.project import project_settings
from xla_migrate.releases import resolve
from xla_transforms.dividing import divide
from xla_transforms.encoding import declared
from xla_transforms.outcome import Outcome
from xla_transforms.settings import Settings
from xla_transforms.targets import DEFAULT

Texts = Mapping[str, str]
"""The texts of the open documents by path."""


@dataclass
class Programs:
    """Finds the files that belong to a document, and migrates them together.

    ``target`` is that of the command line, or empty; else, and in all other respects, the settings of the
    document's project count. Texts of open documents count in the place of their files.
    """

    target: str
    _related: dict[str, list[str]] = field(default_factory=dict)

    def migrated(self, path: str, texts: Texts, folders: Collection[str], again: bool) -> list[Document]:
        """The outcomes of a document and of the files that imports connect with it.

        ``folders`` are those of the workspace. Which files belong together is found out where it is not
        known, and ``again`` on demand: it takes a look into every file of the folder.
        """
        if again or path not in self._related:
            self._related[path] = _related(path, texts, folders)
        named = [path] if os.path.isabs(path) else []
        chosen = project_settings(named)
        documents = _documents(path, self._related[path], texts, chosen.excluded)
        target = resolve(self.target or chosen.target or DEFAULT, named).target
        distributed = "auto" if chosen.distributed is None else chosen.distributed
        migrate(documents, Settings(target, black=black_settings(named), distributed=distributed))
        policy = Policy.of(chosen)
        choose(documents, policy)
        tell(documents, policy)
        return documents

    def forget(self, path: str) -> None:
        """A document was closed."""
        self._related.pop(path, None)


def _documents(
    path: str, related: Iterable[str], texts: Texts, excluded: Callable[[str], bool] | None
) -> list[Document]:
    """The files of a program that the project does not exclude; of an excluded document nothing is said."""
    if excluded is not None and excluded(path):
        data = _encoded(path, texts[path])
        return [Document(path, Content(path, data, 0o644), Outcome(path, data, texts[path], texts[path]))]
    contents = (_content(name, texts) for name in related if excluded is None or not excluded(name))
    return [Document(content.path, content) for content in contents if content is not None]


def _related(path: str, texts: Texts, folders: Collection[str]) -> list[str]:
    files = {name: content.data for name in _around(path, folders) if (content := _content(name, texts))}
    data = _encoded(path, texts[path])
    files[path] = Program(data).text.encode("utf-8", "replace") if is_notebook(path) else data
    parts, _ = divide(files)
    return next((part for part in parts if path in part), [path])


def _around(path: str, folders: Collection[str]) -> list[str]:
    """The Python files of the workspace's folder, else of the repository, else beside the document."""
    if not os.path.isabs(path):  # a document that was never saved
        return []
    folder = os.path.dirname(path)
    above = [one for one in folders if Path(path).is_relative_to(one)]
    root = max(above, key=len, default=None) or repository_root(Path(folder))
    if root is not None:
        found = discover([str(root)]).files
    else:
        found = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".py")]
    return [name for name in found if not is_notebook(name)]


def _content(path: str, texts: Texts) -> Content | None:
    if path in texts:
        return Content(path, _encoded(path, texts[path]), 0o644)
    try:
        return read(path)
    except FileProblem:
        return None


def _encoded(path: str, text: str) -> bytes:
    """The bytes that the editor would save; what does not fit the encoding keeps its place as a ``?``."""
    return text.encode("utf-8" if is_notebook(path) else declared(text), "replace")
