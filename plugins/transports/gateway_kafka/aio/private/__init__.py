"""All uses of aiokafka's private parts: attributes with an underscore, and what its documentation does not list.

`names.py` has each name with its use and its expected shape. Nothing here changes aiokafka for the rest of the process:
what is replaced, is replaced in one client, consumer or connection of the gateway's own.
"""
