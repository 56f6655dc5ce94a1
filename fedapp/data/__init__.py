"""Images, who holds which, and what each client sees of them."""
