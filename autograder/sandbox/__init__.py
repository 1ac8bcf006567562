"""Where student code runs: behind `layers`, found by `probe`; `process` starts it, `remote` asks, `inside` is there."""
