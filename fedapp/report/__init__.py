"""What a run folder tells a reader: report.html, figures, comparisons."""
