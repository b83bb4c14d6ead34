"""The shown run of the batch tab: its status, tables, charts and downloads."""
