"""What ended jobs tell of those like them."""
