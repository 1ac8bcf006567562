"""Where student code runs: behind `layers`, as `probe` found; `process` starts it, `remote` asks it, `inside` is there."""
