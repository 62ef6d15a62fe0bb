"""Other people's barriers and all-reduces, each alive in processes of its own and asked to run by command.

A contender may hang, crash or be absent without harm: only `team` talks to it, and only by lines of JSON. Must not
decide what is compared with what; `probes.compare` does.
"""
