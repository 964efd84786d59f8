"""The notebook runs from its first cell to its last."""

import pytest

from conftest import EXAMPLES, LIMIT_S

pytest.importorskip("torch", reason="PyTorch is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")


def test_every_cell_runs(services, tmp_path):
    notebook = nbformat.read(EXAMPLES / "quickstart.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "clear the outputs before you commit"
    (parameters,) = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    where = {"storage": services.storage, "workers": services.worker, "datasets": "photos"}
    parameters.source = f"data = {where!r}"
    client = nbclient.NotebookClient(
        notebook, timeout=LIMIT_S, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    results = [
        output.data
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "execute_result"
    ]
    assert any("image/png" in data for data in results), "the contact sheet is shown"
    (means,) = [data["text/plain"] for data in results if data["text/plain"].startswith("[4")]
    first, *_, last = [float(mean) for mean in means.strip("[]").split(",")]
    assert last < first
