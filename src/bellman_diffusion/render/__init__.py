"""What users read and look at: pages, tables and figures of the product."""
