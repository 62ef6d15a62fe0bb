"""The modelled machine: fabric files, links, and what can be wrong with them."""
