"""The tools of agents and programs: one table, served by MCP over stdio and on the page, and used from Python."""
