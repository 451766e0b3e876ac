"""A profile of seen inputs (`Seen`): as declarations, and beside the verdict on a model.

watch.py, reading.py   a live model's calls, recorded and read
from_seen.py           the profile as declarations
serving.py             the verdict on a model that is to serve every seen input
against_seen.py        the verdict compared with the profile
"""
