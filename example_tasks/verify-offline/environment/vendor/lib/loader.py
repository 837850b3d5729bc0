import os
def load(path):
    return open(path).read()
