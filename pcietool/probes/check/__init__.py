"""Somebody's own kernel: does it end, is it right in every order, and which fence does it need or lack."""
