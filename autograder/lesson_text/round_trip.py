"""Verify that a lesson's text is its notebook: opening, running and saving it in JupyterLab changes nothing."""

import shutil
import tempfile
from pathlib import Path

import jupytext
import nbformat


def changed_by_jupyterlab(lesson: Path) -> bool:
    """True if running and saving changes the text or adds a file, under the jupytext.toml beside the lesson."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (lesson, lesson.with_name("jupytext.toml")):
            if path.is_file():
                shutil.copy(path, folder)
        manager = jupytext.TextFileContentsManager(root_dir=folder)
        model = manager.get(lesson.name, type="notebook", content=True)
        for number, cell in enumerate(cell for cell in model["content"].cells if cell.cell_type == "code"):
            cell.execution_count = number
            cell.outputs = [nbformat.v4.new_output("stream", text="run")]
        manager.save({"type": "notebook", "content": model["content"]}, lesson.name)
        saved = Path(folder, lesson.name).read_bytes()
        return saved != lesson.read_bytes() or any(Path(folder).glob("*.ipynb"))
