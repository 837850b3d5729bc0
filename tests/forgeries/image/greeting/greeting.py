WORD = "ok"
