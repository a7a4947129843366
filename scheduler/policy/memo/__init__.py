"""What is remembered from plan to plan. It saves time and changes no plan."""
