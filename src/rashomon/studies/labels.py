from rashomon.models.labels import in_model_labels as in_model_labels
