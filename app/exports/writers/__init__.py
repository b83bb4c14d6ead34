"""Writers of the export formats."""
