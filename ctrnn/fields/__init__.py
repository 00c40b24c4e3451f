"""Vector fields and the parts they are made of: candidates, rates, decays, and the product form."""
