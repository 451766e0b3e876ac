"""Shape specs in continuous integration. Importing this package loads nothing else.

spec       what is to be checked                    spec.py, spec_errors.py, dims.py, toml_lines.py
job        one model, in a process of its own       jobs.py, isolation.py, worker.py, subjects.py
run        all of them, here or on a cluster        run.py, executors.py, cluster.py, display.py
remember   verdicts that still hold                 cache.py, sources.py, changes.py, files.py
compare    what is accepted, with what was          lock.py, narrowing.py, contracts.py
say        what was found                           render/, terminal.py
ask        from a shell, or from pytest             cli.py, commands/, pytest_plugin.py, pytest_items.py
"""
