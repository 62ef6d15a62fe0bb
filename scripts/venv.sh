# Sourced by the scripts beside it: makes .venv with the checkout installed in it, and says so on stderr.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv

python_for_venv() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "pcietool: no Python >= 3.11 with venv and pip found; install python3.11 and python3.11-venv, or newer" >&2
    return 1
}

if [[ ! -x $venv/bin/pip ]]; then # which comes last, so that a half-made one is made again
    python=$(python_for_venv)
    echo "pcietool: making $venv" >&2
    "$python" -m venv "$venv" >&2
fi
# The stamp is written last: an install that broke off is done again.
if [[ ! $venv/installed -nt $root/pyproject.toml ]]; then
    echo "pcietool: installing into $venv (once; a few minutes on a slow network)" >&2
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$root[dev]" </dev/null >&2
    touch "$venv/installed"
fi
