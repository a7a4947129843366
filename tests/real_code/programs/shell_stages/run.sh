#!/bin/bash
# Prepare, train, evaluate; what is done already is skipped.
set -euo pipefail
cd "$(dirname "$0")"
OUT=${OUT:-out}
mkdir -p "$OUT"
[ -f "$OUT/prepared" ] || python stages/prepare.py "$OUT"
python stages/train.py "$OUT"
python stages/evaluate.py "$OUT"
