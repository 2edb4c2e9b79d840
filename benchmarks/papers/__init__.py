"""The evaluation of the five papers, figure by figure: ``python -m benchmarks.papers``.

One file per paper says what its figures and tables show and measures the same here; `model.py` has
what they share, `document.py` writes `docs/papers.md` and its plots.
"""
