#!/usr/bin/env bash
# PrairieLearn runs this for each submission, as root.
set -euo pipefail
mkdir -p /grade/results
chmod 700 /grade/results /grade/serverFilesCourse /opt/grader
cd /opt/grader/grader
export PYTHONPATH="$PWD"
exec "${AUTOGRADER_VENV:-/opt/attention}/bin/python" -m autograder.elsewhere prairielearn \
    /grade/student /grade/results/results.json
