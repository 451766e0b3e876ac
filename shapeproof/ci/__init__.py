"""Shape specs in continuous integration. Importing this package loads nothing else.

spec       what is to be checked                    spec.py, spec_errors.py, dims.py, toml_lines.py
job        one model, and what its code raised      jobs.py, subjects.py, tracebacks.py
process    where a model is checked, alone          worker.py, isolation.py, frames.py, processes.py
run        all of them, here or on a cluster        run.py, executors.py, cluster.py, display.py
remember   verdicts that still hold                 cache.py, identity.py, changes.py
watch      what a verdict was made from             sources.py, watch.py, opened.py
compare    what is accepted, with what was          lock.py, narrowing.py, contracts.py
say        what was found                           render/, spec_help.py, plain.py, terminal.py
ask        from a shell, or from pytest             cli.py, pages.py, commands/, pytest_plugin.py, pytest_items.py
"""
