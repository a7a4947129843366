"""Settings of the service by what they are for; `Springtide` has all of them."""
