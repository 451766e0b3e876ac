"""PyTorch's own tests of torch.export, with shapeproof's `export` in place of torch's.

suite.py       the tests, from the files that the user gives; one test, by one exporter
apart.py       a test in a process of its own
kept.py        what was found: results.txt, one line a test
__main__.py    all tests, one after the other: `make upstream FILES=.../test/export`

docs/how-to/torchs-own-tests.md says why a test fails that is not mended: each policy is a heading there.
"""
