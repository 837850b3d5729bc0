def dump(value):
    return repr(value)
