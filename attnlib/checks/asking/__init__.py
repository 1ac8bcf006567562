"""How an answer is called and what it does: in this process or in another, within limits, watched."""
