#!/usr/bin/env bash
# Export six models of the suite on CUDA in float32, in bfloat16 and under autocast: at most five minutes.
# `bash benchmarks/on_a_gpu.sh --device cpu` tries the script itself. PYTHON names the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
exec timeout 300 "${PYTHON:-python}" -m benchmarks.on_a_gpu "$@"
