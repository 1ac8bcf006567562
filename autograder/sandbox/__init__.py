"""Run student code behind `layers`, found by `probe`: `process` starts it, `remote` questions it, `inside` runs it."""
