"""The page of erasure requests: what was asked, found and done, what is left until when, what is to
be done next. One request is a case; a page can be about several.
"""
