"""`skewless demo`: the orders and taxis of a city, joined in three ways where you can watch."""
