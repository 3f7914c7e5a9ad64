"""What a serving engine needs around structout: promotion of waiting requests, masks, sampling, outcomes, bridges."""
