"""Slow tests, of which ``make test`` runs a part and ``make test-full`` the rest.

The rule: a test that takes more than about a second of CPU has one of n of its parameters (the first, and every n-th
after it), where these are dtypes, layouts, architectures, sizes or tiles of the same code; n is below. A slow test
without parameters is ``ELSEWHERE`` if a faster test, named with it, executes the code that it is about; what is added
is another process, size, tile or compiler. The few of which ``make test`` has nothing say so. Races and planted bugs
are not here.
"""

from __future__ import annotations

ONE_IN: dict[str, dict[str, int]] = {
    "apps/clustering/test_blocks.py": {"test_labels_are_those_of_one_piece": 6},
    "apps/clustering/test_checkpoint.py": {"test_an_interrupted_fit_continues": 2},
    "apps/clustering/test_devices.py": {
        "test_kernels_find_the_domains_that_pytorch_finds": 2,
        "test_starts_one_after_another_give_the_same_fit": 2,
    },
    "apps/clustering/test_graphs.py": {"test_radius_equals_brute_force": 2},
    "apps/clustering/test_missing.py": {"test_fits": 2, "test_without_gaps_it_is_the_ordinary_step": 2},
    "apps/clustering/test_mixture.py": {"test_each_option_recovers_layers": 2},
    "cli/test_cluster.py": {"test_inputs": 2},
    "cli/test_explain.py": {"test_what_makes_no_sense_is_said": 2},
    "cli/test_run.py": {"test_what_cannot_run_is_a_clear_error": 2},
    "cli/test_run_tensor_maps.py": {"test_a_map_that_is_not_valid": 2},
    "cuda/hopper/test_bulk_copies.py": {
        "test_a_box_is_loaded_with_its_swizzle": 2,
        "test_each_reduction_applies_to_the_part_inside_the_tensor": 3,
    },
    "cuda/hopper/test_wgmma.py": {"test_mn_major_operands": 3, "test_types_and_swizzles_of_k_major_operands": 6},
    "cuda/test_emulator_launches.py": {"test_a_timeout_reports_the_last_known_line": 2},
    "cuda/test_headers_mma_forms.py": {"test_m8n8_of_integers_and_bits": 2, "test_wmma_below_a_byte": 2},
    "cuda/test_headers_ptx.py": {"test_mma": 3},
    "cuda/test_headers_wmma.py": {"test_mma_sync": 6},
    "cuda/test_nvcc.py": {"test_symbols_types_and_constants_of_nvcc": 2},
    "docs/test_guide.py": {"test_a_page_shows_what_its_commands_print": 4},
    "lab/inductor/test_generate.py": {"test_triton_code_generated_without_a_gpu_becomes_a_correct_file": 3},
    "lab/report/test_browser.py": {"test_every_plot_is_drawn_and_fits": 3},
    "lab/test_fidelity.py": {
        "test_instructions_counters_and_resources_agree": 6,
        "test_what_is_not_yet_recorded_has_no_record_that_agrees": 3,
    },
    "lab/test_watch.py": {"test_whatever_a_file_does_watching_goes_on": 2},
    "machine/test_bulk.py": {
        "test_a_map_that_the_kernel_changes": 4,
        "test_a_reduction_in_the_shared_memory_of_another_block": 12,
        "test_pixels_are_loaded": 4,
        "test_reductions_of_boxes": 9,
    },
    "machine/test_control.py": {
        "test_barriers_agree_with_the_emulator": 2,
        "test_divergence_agrees_with_the_emulator": 6,
    },
    "machine/test_matrix.py": {"test_ldmatrix_stmatrix_movmatrix": 2, "test_mma_shapes_and_formats": 3},
    "machine/test_memory.py": {"test_cp_async_bulk": 2},
    "machine/test_program.py": {"test_load_program_of_every_architecture": 2},
    "machine/test_spins.py": {"test_loops_that_only_poll_are_found": 2},
    "machine/test_traffic.py": {
        "test_l2_rereads_beyond_the_share_of_a_block": 3,
        "test_sectors_of_global_loads_and_stores": 6,
        "test_wavefronts_of_shared_atomics": 9,
        "test_wavefronts_of_shared_loads": 9,
        "test_wavefronts_of_shared_stores": 6,
    },
    "machine/test_triton.py": {"test_matmul": 6},
    "operation/test_nine.py": {
        "test_it_compiles_into_one_graph": 3,
        "test_it_is_timed_beside_pytorch": 3,
        "test_the_rung_is_right": 4,
    },
    "ops/test_batched_matmul.py": {"test_aligned_sizes_in_every_layout": 2, "test_views_are_read_in_place": 3},
    "ops/test_conv_block_over_processes.py": {"test_two_processes_compute_the_block_of_one_batch": 3},
    "ops/test_gemm_config.py": {"test_every_winner_is_a_candidate": 2},
    "ops/test_gemm_model.py": {"test_a_fit_to_times_of_known_coefficients_recovers_them": 2},
    "ops/test_grouped_matmul.py": {
        "test_configurations_and_splits_of_k01": 3,
        "test_every_configuration": 2,
        "test_every_configuration_of_float32": 2,
        "test_the_largest_tiles_of_k02_stay_in_registers": 2,
    },
    "ops/test_histogram.py": {"test_the_most_bins_a_rung_takes": 2},
    "ops/test_large_sizes.py": {"test_no_index_wraps_around": 3},
    "ops/test_linear.py": {"test_warps_that_divide_k": 2},
    "ops/test_linear_cross_entropy.py": {"test_targets_that_are_no_class": 2},
    "ops/test_matmul.py": {
        "test_an_empty_sum_is_zero": 2,
        "test_both_sizes_of_the_warp_tile": 2,
        "test_transposed_and_broadcast_operands": 3,
    },
    "ops/test_matmul_ampere.py": {"test_every_tile": 11},
    "ops/test_matmul_arguments.py": {"test_an_empty_sum_is_zero": 3, "test_storage_offsets_of_one_element": 3},
    "ops/test_matmul_specialised.py": {"test_a_stage_is_read_before_it_is_released": 2},
    "ops/test_matmul_variable.py": {"test_products_by_two_widths": 2},
    "ops/test_matvec.py": {
        "test_every_division_of_the_work": 3,
        "test_short_rows_take_parts_of_warps": 2,
        "test_views": 3,
    },
    "ops/test_negated.py": {"test_a_negated_view_is_read_with_its_sign": 3},
    "ops/test_network.py": {
        "test_a_timed_size_rejects_impostors": 3,
        "test_gradients_on_tensor_cores_keep_infinity_nan_and_huge_values": 4,
        "test_tensor_cores_keep_infinity_nan_and_huge_values": 2,
    },
    "ops/test_potts_em_step.py": {
        "test_fragments_agree_with_pytorch": 3,
        "test_fragments_of_large_priors": 2,
        "test_points_outside_the_bounds_keep_their_probabilities": 2,
    },
    "ops/test_public.py": {
        "test_compiles_into_one_graph": 6,
        "test_double_backward": 2,
        "test_dynamic_shapes": 6,
        "test_gradients_under_function_transforms": 2,
    },
    "ops/test_reduce_sum.py": {"test_half_precision_is_accumulated_in_float32": 2, "test_infinity_and_nan_stay": 2},
    "ops/test_skinny.py": {"test_splits_and_pairs_on_a_cpu": 2},
    "ops/test_softmax.py": {"test_large_values_do_not_overflow": 3},
    "ops/test_unseen_transposes.py": {"test_strips_and_fitted_blocks_of_every_width": 3},
}

ELSEWHERE: dict[str, dict[str, str]] = {
    "apps/test_train.py": {
        "test_emulated_kernels_take_the_same_steps": "nn/test_step_gradients.py: gradients, loss, statistics and SGD; "
        "test_emulated_steps_take_gathered_batches: what a step is given"
    },
    "cli/test_explain.py": {
        "test_a_copy_of_a_file_in_another_folder": "test_a_kernel_of_a_file and test_sampled_and_trusted, of which one "
        "finds the machine code of the other's file",
        "test_a_triton_kernel_of_a_python_file": "lab/explain/test_triton.py, and the same of cli/test_check.py",
    },
    "cli/test_watch.py": {
        "test_the_source_of_a_rung_is_verified_and_explained": "test_a_file_means_its_rung_or_all_of_its_folder, "
        "test_an_operation_of_ones_own_and_a_wrong_rung_in_it, lab/test_watch.py"
    },
    "cuda/hopper/test_gemm.py": {
        "test_a_function_of_the_sums": "ops/test_rungs.py::test_a_rung_like_another_is_right_once of linear"
    },
    "cuda/hopper/test_wgmma.py": {
        "test_products_are_added_to_the_accumulators": "ops/test_rungs.py: every k of more than one instruction"
    },
    "cuda/test_emulator_launches.py": {
        "test_two_installations_can_share_a_cache": "not: it compiles the emulator's headers once more, 7 s"
    },
    "cuda/test_inline.py": {
        "test_the_square_matrix_example": "the fixture `extension`",
        "test_user_defined_bindings": "the fixture `extension`, whose bindings are generated in the same words",
    },
    "cuda/test_nvcc.py": {
        "test_a_grid_barrier_is_found_in_the_code_of_nvcc": "test_symbols_types_and_constants_of_nvcc",
        "test_an_expression_that_is_not_an_instance_does_not_show_our_code": "test_errors_of_nvcc_are_at_the_users_"
        "lines_and_without_warnings",
    },
    "lab/inductor/test_standalone.py": {
        "test_the_file_runs_as_a_program": "the rest of the file, and cli/test_inductor.py, in this process"
    },
    "lab/store/test_durability.py": {
        "test_a_climb_that_is_killed_keeps_the_verdicts_it_had": "test_a_climb_records_each_verdict_as_it_comes and "
        "test_sigkill_loses_nothing_that_was_recorded"
    },
    "machine/test_clusters.py": {
        "test_multicast_loads_for_all_blocks_of_a_cluster": "test_a_ring_that_both_blocks_fill_by_multicast, and bulk "
        "copies to four blocks in machine/test_bulk.py",
    },
    "machine/test_memory.py": {
        "test_cuda_barrier_and_memcpy_async": "test_cp_async_and_zero_fill, and cuda::barrier in test_cp_async_bulk"
    },
    "machine/test_run.py": {
        "test_keyboard_interrupt_after_overlapping_runs": "test_keyboard_interrupt, and cuda/test_emulator_launches.py"
    },
    "nn/test_linear.py": {"test_compiles_into_one_graph": "ops/test_public.py: the module calls one operator"},
    "ops/test_batched_matmul.py": {
        "test_any_size_and_layout_in_float32": "test_any_size_and_layout, test_aligned_sizes_in_every_layout and "
        "ops/test_rungs.py"
    },
    "ops/test_conv_block.py": {"test_opcheck_with_and_without_a_saved_convolution": "ops/test_public.py::test_opcheck"},
    "ops/test_linear.py": {
        "test_large_tiles_of_the_backward_on_tensor_cores": "ops/test_rungs.py, in smaller tiles of the same template"
    },
    "ops/test_linear_cross_entropy.py": {
        "test_the_end_of_a_network_is_torchs": "ops/test_rungs.py and nn/test_step_gradients.py"
    },
    "ops/test_matmul_ampere.py": {
        "test_the_machine_code_has_no_bank_conflicts": "nothing: results are right with conflicts too",
        "test_any_size_alignment_and_layout": "ops/test_matmul_tf32.py, and ops/test_rungs.py in 2-byte dtypes",
    },
    "ops/test_matmul_hopper.py": {
        "test_tiles_narrower_than_their_boxes": "ops/test_rungs.py, in tiles as wide as their boxes"
    },
    "ops/test_matmul_int8.py": {"test_compiles_into_one_graph": "ops/test_public.py and ops/test_rungs.py"},
    "ops/test_matmul_specialised.py": {
        "test_every_element_is_stored_once": "ops/test_rungs.py, in the tile of small products"
    },
    "ops/test_matmul_tf32.py": {"test_every_tile": "the same of ops/test_matmul_ampere.py, of the same source"},
    "ops/test_matvec.py": {
        "test_every_configuration": "test_any_size_order_and_alignment, in configurations that sizes choose",
        "test_few_columns_are_loaded_at_once": "test_every_division_of_the_work",
    },
    "ops/test_network.py": {
        "test_blocks_of_large_tensors_normalise_rows": "ops/test_rungs.py",
        "test_tiles_of_wide_and_tall_images": "ops/test_rungs.py",
    },
    "ops/test_potts_em_step.py": {
        "test_gathering_warps_take_full_tiles": "ops/test_rungs.py, with fewer neighbours",
        "test_one_launch_agrees_with_pytorch": "ops/test_rungs.py, and test_a_lane_for_each_rounded_point",
        "test_fragments_in_blocks_for_many_points": "test_fragments_agree_with_pytorch, with fewer warps a block",
        "test_tiles_agree_with_pytorch": "ops/test_rungs.py",
    },
    "ops/test_skinny.py": {
        "test_a_column_major_a_on_a_cpu": "nothing; test_splits_and_pairs_on_a_cpu has column-major b",
        "test_few_rows_with_any_number_of_parts": "ops/test_rungs.py and test_one_column_is_one_row_transposed",
    },
    "test_two_checkouts.py": {"test_a_checkout_beside_itself": "benchmarks are no part of the package"},
    "triton/test_compile.py": {
        "test_compile_after_an_interpreted_launch_in_a_new_process": "lab/explain/test_triton.py"
    },
    "triton/test_launch.py": {
        "test_interpreter_works_with_triton_interpret_set": "the rest of the file, in this process"
    },
}
