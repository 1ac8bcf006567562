"""Where student code runs: `layers` says what keeps it in, `process` starts it, `remote` asks it, `inside` is there."""
